LOAD ducklake;
LOAD postgres_scanner;
LOAD azure;
CREATE OR REPLACE TEMPORARY SECRET "my_catalog" (TYPE postgres, HOST 'db.example.com', PORT 5432, DATABASE 'lake', USER 'lake', PASSWORD ?, SSLMODE 'require');
CREATE OR REPLACE TEMPORARY SECRET "my_bucket" (TYPE azure, CONNECTION_STRING 'AccountName=acme;BlobEndpoint=https://acme.blob.core.windows.net;AccountKey=' || ?, SCOPE 'az://acme.blob.core.windows.net/shop/');
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH '', METADATA_SCHEMA 'shop', METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'my_catalog'}, DATA_PATH 'az://acme.blob.core.windows.net/shop/lake/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0);
USE "prod";

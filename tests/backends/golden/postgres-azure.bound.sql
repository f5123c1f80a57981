LOAD ducklake;
LOAD postgres_scanner;
LOAD azure;
CREATE OR REPLACE TEMPORARY SECRET "lakeconf_prod" (TYPE ducklake, METADATA_PATH '', METADATA_SCHEMA 'shop', METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'my_catalog'}, DATA_PATH 'az://acme.blob.core.windows.net/shop/lake/');
ATTACH 'ducklake:lakeconf_prod' AS "prod" (DATA_INLINING_ROW_LIMIT 0);
USE "prod";

LOAD ducklake;
LOAD motherduck;
LOAD httpfs;
ATTACH 'md:';
CREATE OR REPLACE SECRET "my_bucket" IN MOTHERDUCK (TYPE s3, KEY_ID 'AKIA0', SECRET getenv('BUCKET_SECRET'), SESSION_TOKEN getenv('BUCKET_TOKEN'), REGION 'eu-central-1', SCOPE 's3://acme/');
CREATE DATABASE IF NOT EXISTS "shop_lake" (TYPE DUCKLAKE, DATA_PATH 's3://acme/shop/');
USE "shop_lake";
